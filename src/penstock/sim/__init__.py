"""The simulator: a virtual world of brokers, links, hosts, clients, faults and time, all following from one seed.

Read ``world`` (what exists), ``clock`` (time), ``wire`` and ``link`` (how frames travel), ``node`` (the shell of a
broker), ``device`` and ``disk`` (what outlives a broker), ``client`` with ``shell``, ``sending``, ``witness`` and
``records`` (applications), ``checkers`` (laws of best effort), ``verdict`` (laws of guaranteed delivery),
``trace`` (what happened). Campaigns: ``campaign`` harms best effort; ``delivery`` harms guaranteed delivery and checks
memory limits, with ``delivery_plan`` (what is drawn), ``faults`` (harm), ``probes`` (rare paths) and ``delivery_run``
(the outcome).
"""
