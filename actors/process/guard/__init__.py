"""The helpers between an owner and its commands: a program of its own, which imports nothing else.

`port` starts it as `python -I -S`, with this folder as a package without parents, so that a start
costs a few milliseconds whatever the rest of the project imports.
"""
