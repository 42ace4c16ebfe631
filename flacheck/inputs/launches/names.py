"""What source from a file may name: the language of every release from 3.0 on, as `dir` of it lists
it.

No module is in here, for from a module of triton's there are ways to the whole of Python.
"""

LANGUAGE = frozenset(
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

BUILTINS = frozenset("abs bool float int isinstance len list max min print range tuple zip".split())

NO_FUNCTIONS = frozenset("core math extra builtins jit language libdevice os sys triton tl".split())
