import diffkern as dk
