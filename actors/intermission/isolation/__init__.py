"""Function calls in child processes, which can be ended whatever they do.

errors.py        what goes wrong
setting.py       what a child must have in common with this process to know its functions
tool_process.py  one child, and the conversation with it
children.py      those of a runner; idle ones are kept for a while

The program that the child runs is `intermission/tool_child.py`.
"""
