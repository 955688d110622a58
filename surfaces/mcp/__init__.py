"""The door for agents: an MCP server over the authority of one state directory.

`server.build` makes what one client talks to, from an `AuthorityLink` and an `AgentCaller` (who the
client is, and what it holds). Importing the SDK takes about a second, so that this front imports
nothing.
"""
