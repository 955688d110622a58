"""The door for agents: an MCP server over the authority of one state directory.

`server.build` makes what one client talks to, from a `Desk` (the way to the authority) and a
`Visit` (who the client is, and what it holds). Importing the SDK takes about a second, so that
this front imports nothing.
"""
