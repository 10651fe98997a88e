"""Triton's interpreter, which runs the kernels of GPUs on tensors of the CPU where there is no GPU."""

import pytest


@pytest.fixture
def interpreter(monkeypatch):
    """Mend two faults of the interpreter of Triton 3.6."""
    from triton import language as tl
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor
    dot = interpreter.InterpreterBuilder.create_dot

    def patched(tensor, scope):
        original(tensor, scope)
        # For NumPy 2.4 an array of one number is no number.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def patched_dot(self, a, b, *args):
        # It keeps bfloat16 as integers of 16 bits, and multiplies those.
        if a.dtype == tl.bfloat16:
            a, b = (self.cast_impl(value, tl.float32) for value in (a, b))
        return dot(self, a, b, *args)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", patched_dot)
    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
