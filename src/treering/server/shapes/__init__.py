"""Messages in the shapes that user interfaces and model APIs use, and back: pure functions.

A recorded message may have the shape of any API. Here it is first taken apart into a few kinds of parts, which every
shape has a word for. What only one user interface has a word for is kept beside the content, so that the interface gets
back what it sent, and no model sees it.
"""
