"""Messages in the shapes that user interfaces and model APIs use, and back: pure functions.

A recorded message may have the shape of any API. It is first split into a few kinds of parts that all shapes can
express. Data that only one user interface can express is kept beside the content: the interface gets it back, and no
model sees it.
"""
