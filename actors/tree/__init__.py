"""The coordinator's supervision tree: what `understudy up` starts.

    coord_sup            rest_for_one: who depends on somebody is started after them
      authority_client   owns the sidecar, looks after it, starts it again
      evidence_writer    writes the trajectory behind the journal
      worker_sup         any number of workers, each a process group under one lease
      lease_dispatcher   finds work, claims it, starts workers, renews, retries, escalates

`launcher` starts it and stops it, `control` talks to one that runs elsewhere.
"""
