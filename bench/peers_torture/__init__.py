"""The same torture for Holdfast and its peers: kill -9 one worker of two, or freeze it, and count what becomes of its jobs.

``python -m bench.peers_torture`` runs every setting of every peer side by side, each on a separate database, which takes
about eight minutes. ``catalogue`` lists the peers and their settings, ``trial`` is what is done to them, ``verdict`` how
it is counted; ``contestants`` has one file for each peer.
"""
