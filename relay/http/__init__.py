"""The edge of the HTTP interface, for every part that has routes.

Middleware goes around the routes in this order, outermost first: `observation` (a line and a count for whatever
happens further in), `cors` (a preflight needs no token), `problems` (every exception becomes an answer),
`relay.limits.admission` (too many requests from one address), `guard` (what no route should have to think about). The
two ``mark`` belong to ``on_response_prepare``. What one owner or client asks for is counted when it is authenticated.
`events.end_streams_with` is called once for the application that is served, and `server.Runner` serves it.
"""
