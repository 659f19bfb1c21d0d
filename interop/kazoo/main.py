"""The kazoo client and its recipes on one server: main.py server proxy control [part of a case name]."""

import os
import sys

import node_cases
import recipe_cases
import session_cases
from fixture import Fixture
from suite import run_cases

if __name__ == "__main__":
    cases = node_cases.CASES + session_cases.CASES + recipe_cases.CASES
    code = run_cases(Fixture(sys.argv[1:]), "kazoo", cases, *sys.argv[4:5])
    sys.stdout.flush()
    # Exit even if client threads of a failed case are still running.
    os._exit(code)
