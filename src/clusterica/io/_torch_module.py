"""The torch module of image features, ``A pool(f(W * x / s - b)) + c``; `_stages` computes its numbers.

The only file that imports torch at its top: it is imported when a module is asked for, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import conv2d, linear, max_pool2d, one_hot

from clusterica.ops.patch import gaussian_weights, grid_cells

if TYPE_CHECKING:
    from clusterica.io._stages import Head, Stages

Tensor = Any  # torch is not analysed by mypy


class ImageModule(torch.nn.Module):
    """Images to features, or to the decisions of a linear classifier; see `clusterica.io.to_torch`."""

    def __init__(self, stages: Stages, head: Head | None) -> None:
        super().__init__()
        self.stages = stages
        self.classes = None if head is None else head.classes
        arrays = {"filters": stages.filters, "bias": stages.bias, "centring": stages.centring}
        arrays |= {"atoms": stages.atoms}
        if head is not None:
            arrays |= {"coef": head.coef, "intercept": head.intercept}
        for name, values in arrays.items():
            # Buffers and not parameters: they are learned already, and move with the module.
            self.register_buffer(
                name, None if values is None else torch.tensor(values, dtype=torch.float32)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Return features or decisions of images, (n, height, width) or (n, height, width, channels)."""
        x = images.to(torch.float32)
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
        features = self._pool(self._encode(self._respond(x)))
        if self.classes is None:
            return features
        scores = linear(features, self.coef, self.intercept)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _respond(self, x: Tensor) -> Tensor:
        """Return ``W x / s - b`` at every place, shape (n, n_filters, rows, columns)."""
        p, stride, eps = self.stages.patch_size, self.stages.stride, self.stages.eps
        y = conv2d(x, self.filters, stride=stride)
        if eps is not None:
            # From centred pixels: a difference of squares would lose the contrast of bright patches.
            variance = conv2d(x, self.centring, stride=stride).square().mean(1, keepdim=True)
            largest = max_pool2d(x.abs().amax(1, keepdim=True), p, stride)
            # A flat patch holds only the rounding of its mean, and becomes zero.
            flat = variance <= (4 * torch.finfo(torch.float32).eps * largest).square()
            y = torch.where(flat, 0.0, y / torch.where(flat, 1.0, variance + eps).sqrt())
        return y - self.bias[:, None, None]

    def _encode(self, y: Tensor) -> Tensor:
        """Return the codes at every place, shape (n, n_codes, rows, columns)."""
        match self.stages.code:
            case "both-signs":
                alpha = self.stages.alpha
                return torch.cat([(y - alpha).relu(), (-y - alpha).relu()], dim=1)
            case "positive":
                return (y - self.stages.alpha).relu()
            case "sigmoid":
                return torch.sigmoid(y - self.stages.alpha)
            case "hard":
                return one_hot(y.argmax(1), y.shape[1]).permute(0, 3, 1, 2).to(y.dtype)
        # Triangle: y is the whitened patch, and z its distances to the atoms.
        energies = self.atoms.square().sum(1)
        squares = y.square().sum(1, keepdim=True) + energies[:, None, None]
        squares = squares - 2 * conv2d(y, self.atoms[:, :, None, None])
        z = squares.clamp(min=0).sqrt()
        return (z.mean(1, keepdim=True) - z).relu()

    def _pool(self, codes: Tensor) -> Tensor:
        """Return the features of all cells side by side, shape (n, n_cells * n_codes)."""
        cells = grid_cells((codes.shape[2], codes.shape[3]), self.stages.grids)
        if self.stages.pooling == "gaussian":
            *sides, pairs = gaussian_weights(tuple(cells), codes.shape[3])
            down, across = (torch.tensor(W).to(codes) for W in sides)
            sums = torch.einsum("iy,jx,nkyx->nijk", down, across, codes).flatten(1, 2)
            return sums[:, pairs.tolist()].flatten(1)
        pooled = []
        for cell in cells:
            part = codes[:, :, cell.top : cell.bottom, cell.left : cell.right]
            match self.stages.pooling:
                case "sum":
                    pooled.append(part.sum((2, 3)))
                case "mean":
                    pooled.append(part.mean((2, 3)))
                case "max":
                    pooled.append(part.amax((2, 3)))
                case "l2":
                    pooled.append(part.square().sum((2, 3)).sqrt())
        return torch.cat(pooled, dim=1)
