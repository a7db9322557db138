"""The checks that `diagnose` runs, with a module for each subject.

A check yields a *finding*, a `Diagnosis`, for each problem. Each finding has a code. If a code has
several causes, each of them may be a *variant* with its own messages.
"""
