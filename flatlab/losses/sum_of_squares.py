"""|f - y|^2, summed over the samples."""

from flatlab.losses._squared_error import SquaredError


class Loss(SquaredError):
    summed = True

    def divisor(self, outputs: int) -> float:
        return 1.0
