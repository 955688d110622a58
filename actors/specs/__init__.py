"""Specs at work: a runner makes the jobs of a spec, a courier writes the files of jobs.

    spec --runner, under spec/<specId>--> jobs --courier, under dispatch/<jobId>--> job files

Both decide without a clock, dice or a connection of their own (`runner`, `courier`); `shift` has
these, and is all that a cell of the tree, or any other process, needs. Any number of them may work
on one authority: each spec and each job belongs to one at a time, and what one has begun the next
goes on with.
"""
