"""The console: one page in a browser from which a person sees and steers everything.

    browser --> gate --> pages --> desk --> authority (the operator's door), tables, journal, tree
            <-- stream: one line for each quarter of a second in which something was decided

Pages are written on the server and work without JavaScript; scripts keep them fresh. Nothing here
is a rule: what may be done the authority says, and every change leaves its evidence there.
"""
