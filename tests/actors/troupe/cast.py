"""Small behaviours for the tests of the troupe, and what they have in common."""

from understudy.actors.otp import GenServer
from understudy.actors.otp.calls import Caller


class Echo(GenServer):
    def handle_call(self, request: object, caller: Caller) -> object:
        return request
