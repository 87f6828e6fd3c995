"""How often gates fail unchanged builds, and how often they see a planted loss, on the user's own machine and engines.

A *build* is every engine of a suite started anew, measured and judged against a baseline that the study recorded first.
``plan`` says which builds there are, ``record`` stores the baseline, ``run`` makes the builds, ``ledger`` keeps each
as a line of a file so that a study goes on after a kill, ``naive`` judges the same data as people do without gates, and
``tally`` counts.
"""
