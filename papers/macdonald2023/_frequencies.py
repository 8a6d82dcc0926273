"""Regressions of the line: grids of networks, by the frequency of their initialization."""

GAUSSIAN, RELU = "regression-gaussian-grid", "regression-relu-grid"
ACTIVATIONS = {GAUSSIAN: "Gaussian", RELU: "ReLU"}
INITIALIZATIONS = {
    GAUSSIAN: {"high": "framework", "low": "low-frequency"},
    RELU: {"high": "high-frequency", "low": "framework"},
}
"""How rough the function of a freshly initialized network is: macdonald2023, App. C.3."""

JACOBIAN, SHARPNESS, FIRST_LAYER = "jacobian_norm", "hessian_lambda_max", "weight_norm[0]"
"""The rows of tables 1 and 2. The norm of the first layer is the spectral one, which for one input
is also the Frobenius norm."""
