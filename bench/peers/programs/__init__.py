"""Programs that use client libraries as applications do: publish messages, read them back, and print what that cost.

Each is run by ``bench/peers/clients.py`` as a process of its own, with a port and a number of messages as arguments.
"""
