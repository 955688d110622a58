"""Serves MCP to any number of agents, on a Unix socket and over HTTP."""
