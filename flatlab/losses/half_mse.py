"""|f - y|^2 / 2, averaged over the samples."""

from flatlab.losses._squared_error import SquaredError


class Loss(SquaredError):
    def divisor(self, outputs: int) -> float:
        return 2.0
