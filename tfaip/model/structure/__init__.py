"""Structure of the weights of a graph: the dimensions that the axes of each weight consist of.

Two graphs of different sizes are compared by it: an axis that grows is cut where the outputs of several layers were
joined, where the gates of a recurrent layer begin, and so on.
"""
