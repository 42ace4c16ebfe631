"""Names of Triton's language, by module, that a source from a file may use.

The lists hold the builtins, JIT functions, dtypes, constants and classes that the modules have in
releases 3.0.0 to 3.9.0; `tests/subjects/inputs/launches/test_admission_releases.py` compares them
with the releases. They keep names that 3.0.0 had removed, so that a kernel with such a name gets
that failure (FC101).
"""

from collections.abc import Mapping

_LANGUAGE = frozenset(
    """
    PropagateNan TRITON_MAX_TENSOR_NUMEL _experimental_descriptor_load
    _experimental_descriptor_store _experimental_make_tensor_descriptor
    _experimental_reinterpret_tensor_descriptor abs acos acosh add advance arange argmax argmin
    asin asinh associative_scan assume async_task atan atan2 atanh atomic_add atomic_and
    atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll atomic_store atomic_xchg
    atomic_xor bfloat16 bitonic_merge block_type broadcast broadcast_to cast cat cdiv ceil clamp
    condition const constexpr cos cosh cumprod cumsum debug_barrier device_assert device_print
    div_rn dot dot_scaled dtype erf exp exp2 expand_dims expect_zero fdiv flip float16 float32
    float64 float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 floor fma full gather histogram
    inline_asm_elementwise int1 int16 int32 int64 int8 interleave join load load_tensor_descriptor
    log log1p log2 make_block_ptr make_tensor_descriptor map_elementwise max max_constancy
    max_contiguous maximum min minimum mul multiple_of num_programs pair_uniform_to_normal permute
    philox philox_impl pi32_t pointer_type pow program_id rand rand4x randint randint4x randn
    randn4x range ravel reduce reduce_or reshape rsqrt sigmoid sin sinh slice softmax sort split
    sqrt sqrt_rn squeeze static_assert static_print static_range store store_tensor_descriptor sub
    sum swizzle2d tan tanh tensor tensor_descriptor tensor_descriptor_type to_tensor topk trans
    tuple uint16 uint32 uint64 uint8 uint_to_uniform_float umulhi unsqueeze view void where
    xor_sum zeros zeros_like
    """.split()
)
# `tl.math` up to 2.2 also held functions that later moved to libdevice.
_MATH = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh ceil cos cosh div_rn erf exp exp2 fdiv floor fma log
    log1p log2 max min pow rsqrt sin sinh sqrt sqrt_rn tan tanh umulhi
    """.split()
)
_CUDA = frozenset(
    """
    convert_custom_float8_sm70 convert_custom_float8_sm80 experimental_device_tensormap_create1d
    experimental_device_tensormap_create2d experimental_tensormap_fenceproxy_acquire
    gdc_launch_dependents gdc_wait globaltimer num_threads num_warps smid
    """.split()
)
_HIP = frozenset("memrealtime num_threads num_warps smid".split())
_CUDA_LIBDEVICE = frozenset(
    """
    abs acos acosh add_rd add_rn add_ru add_rz asin asinh atan atan2 atanh brev byte_perm cbrt
    ceil clz copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 div_rd div_rn div_ru div_rz
    double2float_rd double2float_rn double2float_ru double2float_rz double2hiint double2int_rd
    double2int_rn double2int_ru double2int_rz double2ll_rd double2ll_rn double2ll_ru
    double2ll_rz double2loint double2uint_rd double2uint_rn double2uint_ru double2uint_rz
    double2ull_rd double2ull_rn double2ull_ru double2ull_rz double_as_longlong erf erfc erfcinv
    erfcx erfinv exp exp10 exp2 expm1 fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f
    fast_log2f fast_logf fast_powf fast_sinf fast_tanf fdim ffs finitef float2int_rd
    float2int_rn float2int_ru float2int_rz float2ll_rd float2ll_rn float2ll_ru float2ll_rz
    float2uint_rd float2uint_rn float2uint_ru float2uint_rz float2ull_rd float2ull_rn
    float2ull_ru float2ull_rz float_as_int float_as_uint floor fma fma_rd fma_rn fma_ru fma_rz
    fmod hadd hiloint2double hypot ilogb int2double_rn int2float_rd int2float_rn int2float_ru
    int2float_rz int_as_float isfinited isinf isnan j0 j1 jn ldexp lgamma ll2double_rd
    ll2double_rn ll2double_ru ll2double_rz ll2float_rd ll2float_rn ll2float_ru ll2float_rz
    llrint llround log log10 log1p log2 logb longlong_as_double mul24 mul_rd mul_rn mul_ru
    mul_rz mulhi nearbyint nextafter norm3d norm4d normcdf normcdfinv popc pow rcbrt rcp64h
    rcp_rd rcp_rn rcp_ru rcp_rz remainder rhadd rhypot rint rnorm3d rnorm4d round rsqrt rsqrt_rn
    sad saturatef scalbn signbit sin sinh sinpi sqrt sqrt_rd sqrt_rn sqrt_ru sqrt_rz sub_rd
    sub_rn sub_ru sub_rz tan tanh tgamma trunc uint2double_rn uint2float_rd uint2float_rn
    uint2float_ru uint2float_rz uint_as_float ull2double_rd ull2double_rn ull2double_ru
    ull2double_rz ull2float_rd ull2float_rn ull2float_ru ull2float_rz y0 y1 yn
    """.split()
)
# AMD's library has one more, and lacks many.
_LIBDEVICE = _CUDA_LIBDEVICE | {"fast_tanhf"}

# Each module that a source from a file may import, with the names that it may use.
NAMES: Mapping[str, frozenset[str]] = {
    "triton": frozenset(["cdiv", "next_power_of_2"]),
    "triton.language": _LANGUAGE,
    "triton.language.math": _MATH,
    "triton.language.extra": frozenset(),
    "triton.language.extra.cuda": _CUDA,
    "triton.language.extra.hip": _HIP,
    "triton.language.extra.libdevice": _LIBDEVICE,
    "triton.language.extra.cuda.libdevice": _CUDA_LIBDEVICE,
    "triton.language.extra.hip.libdevice": _LIBDEVICE,
}

# Attributes of tensors, dtypes, constants and what builtins return.
MEMBERS = frozenset(
    """
    T abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_load
    atomic_max atomic_min atomic_or atomic_poll atomic_store atomic_xchg atomic_xor block_shape
    broadcast_to cast cdiv ceil cos cumprod cumsum dtype element_ty erf exp exp2 expand_dims flip
    floor fp_mantissa_width gather get_int_max_value get_int_min_value histogram int_bitwidth
    int_signedness is_bf16 is_block is_bool is_const is_dtype is_floating is_fp16 is_fp32 is_fp64
    is_fp8 is_fp8e4b15 is_fp8e4b8 is_fp8e4nv is_fp8e5 is_fp8e5b16 is_int is_int1 is_int16 is_int32
    is_int64 is_int8 is_int_signed is_int_unsigned is_ptr is_standard_floating is_tuple is_uint16
    is_uint32 is_uint64 is_uint8 is_void item itemsize load log log2 logical_and logical_or max
    min name nbytes numel permute primitive_bitwidth ravel reduce reduce_or reshape rsqrt scalar
    scatter shape sigmoid sin softmax sort split sqrt sqrt_rn store strides sum to trans type
    value view xor_sum
    """.split()
)
