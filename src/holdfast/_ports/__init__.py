"""The sockets: protocols between the engine and the world, each verb with its promise."""
