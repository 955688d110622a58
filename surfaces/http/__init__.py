"""HTTP as every door of ours speaks it: our hosts, strangers, and how an application is served."""
