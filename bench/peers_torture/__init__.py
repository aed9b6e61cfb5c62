"""The same torture for Holdfast and its peers: kill -9 one worker of two, or freeze it, and count what becomes of its jobs.

``python -m bench.peers_torture`` runs every setting of every peer side by side, each on a database of its own, which takes
about eight minutes. ``catalogue`` says who runs and with which settings, ``trial`` what is done to them, ``verdict`` how
it is counted; ``contestants`` has one file for each peer.
"""
