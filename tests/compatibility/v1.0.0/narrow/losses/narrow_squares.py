"""|f - y|^2 / 4, averaged over the samples."""

from flatlab.losses._squared_error import SquaredError


class Loss(SquaredError):
    def divisor(self, outputs: int) -> float:
        return 4.0
