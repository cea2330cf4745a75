"""kiln's errors. The message names the field and its value."""


class Error(Exception):
    """Any error of kiln's."""


class BadInput(Error, ValueError):
    """An argument is wrong: a shape, a stride, a value."""


class Unsupported(Error, NotImplementedError):
    """The problem is well-formed, but no family of kernels covers it."""


class DeviceError(Error):
    """The device, its driver or the machine refused."""


class CompilerError(Error):
    """A source did not compile, or no compiler could be loaded."""


class DatabaseError(Error):
    """The database could not be opened, read or written."""


class NotTuned(Error):
    """The engine's policy is "error", and the problem was never tuned."""


class VerificationError(Error):
    """A kernel gave a wrong result."""


class InternalError(Error):
    """A defect of kiln's."""
