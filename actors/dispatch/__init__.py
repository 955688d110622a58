"""The dispatcher as a pure state machine, and the clerk that carries its questions.

`dispatcher` decides, `orders` are its words, `settings` what an operator chose; `search`, `term`,
`verdict`, `errands` and `escalation` are parts of its mind. `clerk` talks to the authority.
"""
