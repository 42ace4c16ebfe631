// The comparison of two results on the card. NVRTC 12.0 (--gpu-architecture=compute_70) makes
// compare.ptx of it, which the driver of any later card accepts; unused constants are removed there.
// Elements that neither result wrote (both equal the memory before the launch) do not count.
typedef unsigned long long u64;

__device__ double narrow_float(unsigned bits, int exponent_bits, int mantissa_bits) {
    int sign = bits >> (exponent_bits + mantissa_bits) & 1;
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    int mantissa = bits & ((1 << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double value;
    if (exponent_bits == 4 ? (exponent == 15 && mantissa == 7) : exponent == (1 << exponent_bits) - 1)
        value = __longlong_as_double(0x7ff0000000000000ull | (u64)mantissa);
    else if (exponent == 0)
        value = scalbn((double)mantissa, 1 - bias - mantissa_bits);
    else
        value = scalbn((double)(mantissa | 1 << mantissa_bits), exponent - bias - mantissa_bits);
    return sign ? -value : value;
}

__device__ u64 bits_of(const void* data, u64 place, int size) {
    if (size == 1) return ((const unsigned char*)data)[place];
    if (size == 2) return ((const unsigned short*)data)[place];
    if (size == 4) return ((const unsigned*)data)[place];
    return ((const u64*)data)[place];
}

__device__ double value_of(u64 bits, int size, int form) {
    switch (form) {
        case 1: return size == 4 ? (double)__uint_as_float((unsigned)bits) : __longlong_as_double(bits);
        case 2: return narrow_float((unsigned)bits, 5, 10);
        case 3: return __uint_as_float((unsigned)bits << 16);
        case 4: return narrow_float((unsigned)bits, 4, 3);
        case 5: return narrow_float((unsigned)bits, 5, 2);
        default: return (double)(long long)bits;
    }
}

// `size` is that of an element in bytes; `form` is 0 for integers, 1 for fp32 and fp64, 2 for fp16,
// 3 for bf16, 4 for fp8e4nv, 5 for fp8e5.
// out: elements written, elements that differ, not finite in one, not finite in both,
// beyond the tolerance, sum of squares of `one`, of the differences; then as bits: the largest
// difference, the largest multiple of the tolerance, the smallest and the largest written value.
extern "C" __global__ void compare(const void* one, const void* two, const void* before, u64 count,
                                   int size, int form, double absolute, double relative, double* out) {
    u64* bits = (u64*)(out + 7);
    double sums[7] = {0, 0, 0, 0, 0, 0, 0};
    double largest = 0, worst = 0;
    u64 low = ~0ull, high = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x; place < count; place += step) {
        u64 a = bits_of(one, place, size), b = bits_of(two, place, size);
        u64 c = bits_of(before, place, size);
        if (a == c && b == c) continue;
        double x = value_of(a, size, form), y = value_of(b, size, form);
        bool x_finite = isfinite(x), y_finite = isfinite(y);
        sums[0] += 1;
        low = min(low, a);
        high = max(high, a);
        if (a != b) sums[1] += 1;
        if (x_finite != y_finite) sums[2] += 1;
        if (!x_finite && !y_finite) sums[3] += 1;
        if (!x_finite || !y_finite) continue;
        double difference = fabs(x - y);
        // Bytes are quantised numbers, with or without a sign: 255 lies beside 0.
        if (form == 0 && size == 1 && difference > 128) difference = 256 - difference;
        double multiple = difference / (absolute + relative * fabs(x));
        if (multiple > 1) sums[4] += 1;
        if (multiple > worst) worst = multiple;
        if (difference > largest) largest = difference;
        sums[5] += x * x;
        sums[6] += difference * difference;
    }
    for (int index = 0; index < 7; index++)
        if (sums[index] != 0) atomicAdd(out + index, sums[index]);
    if (largest > 0) atomicMax(bits, (u64)__double_as_longlong(largest));
    if (worst > 0) atomicMax(bits + 1, (u64)__double_as_longlong(worst));
    if (low <= high) {
        atomicMin(bits + 2, low);
        atomicMax(bits + 3, high);
    }
}
