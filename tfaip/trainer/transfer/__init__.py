"""Transfer of weights from one graph to another by their paths: plan and table. Needs no backend.

A transfer is planned with names, shapes and arrays only, so that arrays may come from files (warm
start) or from the graph of an earlier stage.
"""
