"""The Ray Serve application: a graph of deployments, each a thin holder of one core object of `mrag`.

Inside this package Ray's own module is imported as `from ray import serve as ray_serve`.
"""
