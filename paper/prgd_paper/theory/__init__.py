"""The paper's assumptions, constants, lemmas and theorems as functions that can be asked and checked.

So are the statements of docs/note/note.md, which are ours: entropies, the path, and the dual vector of NGD.
`prgd_paper.theory.claims` holds each lemma and theorem as a claim that is measured.
"""
