// The element types under the names that launches give them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

using fp32 = float;
using fp16 = __half;
using bf16 = __nv_bfloat16;
using fp8e4nv = __nv_fp8_e4m3;
