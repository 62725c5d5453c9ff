"""The one error that people who use the development cluster see."""


class DevclusterError(Exception):
    """Something a person can act on went wrong; the message is one clear sentence that says what to do.

    Commands print the message alone, without a trace. Everything that reaches a user on purpose is raised as
    this type; any other exception is a defect of the development cluster itself.
    """
