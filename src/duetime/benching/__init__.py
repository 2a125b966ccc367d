"""The benchmark: puts a node under load, measures it, and tells what came of it.

`duetime bench` is made of it, and so is the developers' benchmark in bench/. Nothing else knows it.
"""
