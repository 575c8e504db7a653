"""The paper's lemmas, propositions and theorems, each a function that measures it.

A function with the decorator `prgd_paper.claims.claim` in any file of this folder is a claim; the command
``prgd claims`` finds it because it is there.
"""
