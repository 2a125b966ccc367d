"""Moving house: everything that one store holds is carried into another, and compared.

The room knows stores by their protocol only, so that any of them can move into any other.
"""
