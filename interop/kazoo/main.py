"""The kazoo client and its recipes on one server: main.py server proxy control [part of a case name]."""

import os
import sys

import node_cases
import recipe_cases
import session_cases
from fixture import Stage
from suite import run_cases

if __name__ == "__main__":
    cases = node_cases.CASES + session_cases.CASES + recipe_cases.CASES
    code = run_cases(Stage(sys.argv[1:]), "kazoo", cases, *sys.argv[4:5])
    sys.stdout.flush()
    # Client threads that a failed case left behind must not keep the program alive.
    os._exit(code)
