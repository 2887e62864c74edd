/* vec_cases.h — one check for each primitive of a vec_*_internal.h header, against plain C on every
 * lane. Included after that header; VEC_NAME(check_vec) is the only function that others see. No
 * test library, so that it can run under an emulator. */
#include <math.h>

#include "kernels/simd/search_lanes_internal.h"

enum { N_ROUNDS = 20000 };

static uint64_t state = 0x9e3779b97f4a7c15u;
static int n_failed;

static uint32_t next_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)(state * 0x2545f4914f6cdd1du >> 32);
}

/* Any bits, numbers of ordinary size, small integers and halves, zeros, infinities and NaN. */
static float next_float(void)
{
    static const uint32_t special[] = {0,           0x80000000u, 0x7f800000u,
                                       0xff800000u, 0x7fc00000u, 0x00000001u,
                                       0x3effffffu, 0x3f000000u, 0x477fefffu};
    switch (next_random() % 4) {
    case 0:
        return qni_f32_from_bits(next_random());
    case 1:
        return (float)((int32_t)(next_random() % 2001) - 1000) * 0.5f;
    case 2:
        return qni_f32_from_bits(special[next_random() % 9]);
    default:
        return ((float)(next_random() >> 8) * 0x1p-24f - 0.5f) * 300.0f;
    }
}

static void fail(const char *what, int lane, uint32_t got, uint32_t want)
{
    if (n_failed++ < 20) {
        printf("FAIL %s, lane %d: %08x, expected %08x\n", what, lane, got, want);
    }
}

static bool is_nan_bits(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* Equal bits; any NaN is as good as another. */
static void expect_floats(const char *what, vf got, const float *want)
{
    float lanes[VL];
    vf_store(lanes, got);
    for (int i = 0; i < VL; i++) {
        const uint32_t g = qni_f32_bits(lanes[i]);
        const uint32_t w = qni_f32_bits(want[i]);
        if (g != w && !(is_nan_bits(g) && is_nan_bits(w))) {
            fail(what, i, g, w);
        }
    }
}

static void expect_ints(const char *what, vi got, const int32_t *want)
{
    int32_t lanes[VL];
    vi_store(lanes, got);
    for (int i = 0; i < VL; i++) {
        if (lanes[i] != want[i]) {
            fail(what, i, (uint32_t)lanes[i], (uint32_t)want[i]);
        }
    }
}

static void expect_bits(const char *what, vm got, uint32_t want)
{
    if (vm_bits(got) != want) {
        fail(what, -1, vm_bits(got), want);
    }
    if (vm_any(got) != (want != 0) || vm_all(got) != (want == 0xffff)) {
        fail(what, -2, vm_any(got), vm_all(got));
    }
}

#define LANES(expression)          \
    for (int i = 0; i < VL; i++) { \
        want[i] = (expression);    \
    }

#define MASK(expression)                     \
    bits = 0;                                \
    for (int i = 0; i < VL; i++) {           \
        bits |= (uint32_t)(expression) << i; \
    }

static void check_arithmetic(const float *x, const float *y)
{
    const vf a = vf_load(x);
    const vf b = vf_load(y);
    float want[VL];
    LANES(x[i] + y[i]) expect_floats("vf_add", vf_add(a, b), want);
    LANES(x[i] - y[i]) expect_floats("vf_sub", vf_sub(a, b), want);
    LANES(x[i] * y[i]) expect_floats("vf_mul", vf_mul(a, b), want);
    LANES(x[i] / y[i]) expect_floats("vf_div", vf_div(a, b), want);
    LANES(sqrtf(x[i])) expect_floats("vf_sqrt", vf_sqrt(a), want);
    LANES(x[i] < y[i] ? x[i] : y[i]) expect_floats("vf_min", vf_min(a, b), want);
    LANES(x[i] > y[i] ? x[i] : y[i]) expect_floats("vf_max", vf_max(a, b), want);
    LANES(fabsf(x[i])) expect_floats("vf_abs", vf_abs(a), want);
    LANES(-x[i]) expect_floats("vf_neg", vf_neg(a), want);
    LANES(fmaf(x[i], y[i], x[5])) expect_floats("vf_fused", vf_fused(a, b, vf_set(x[5])), want);
    LANES(x[3]) expect_floats("vf_set", vf_set(x[3]), want);
    LANES(qni_f32_from_bits(qni_f32_bits(x[i])))
    expect_floats("vf_bits", vf_bits(vi_bits(a)), want);
}

static void check_comparisons(const float *x, const float *y, const int32_t *p, const int32_t *q)
{
    const vf a = vf_load(x);
    const vf b = vf_load(y);
    const vi c = vi_load(p);
    const vi d = vi_load(q);
    uint32_t bits;
    MASK(x[i] < y[i]) expect_bits("vf_lt", vf_lt(a, b), bits);
    MASK(x[i] <= y[i]) expect_bits("vf_le", vf_le(a, b), bits);
    MASK(x[i] > y[i]) expect_bits("vf_gt", vf_gt(a, b), bits);
    MASK(x[i] >= y[i]) expect_bits("vf_ge", vf_ge(a, b), bits);
    MASK(x[i] == y[i]) expect_bits("vf_eq", vf_eq(a, b), bits);
    MASK(p[i] == q[i]) expect_bits("vi_eq", vi_eq(c, d), bits);
    MASK(p[i] > q[i]) expect_bits("vi_gt", vi_gt(c, d), bits);
    const vm m = vf_lt(a, b);
    const vm n = vi_gt(c, d);
    MASK(x[i] < y[i] && p[i] > q[i]) expect_bits("vm_and", vm_and(m, n), bits);
    MASK(x[i] < y[i] || p[i] > q[i]) expect_bits("vm_or", vm_or(m, n), bits);
    MASK(x[i] < y[i] && !(p[i] > q[i])) expect_bits("vm_but", vm_but(m, n), bits);
    expect_bits("all", vi_eq(c, c), 0xffff);
    expect_bits("none", vi_gt(c, c), 0);
    float floats[VL];
    int32_t ints[VL];
    for (int i = 0; i < VL; i++) {
        floats[i] = x[i] < y[i] ? x[i] : y[i];
        ints[i] = p[i] > q[i] ? p[i] : q[i];
    }
    expect_floats("vf_pick", vf_pick(m, a, b), floats);
    expect_ints("vi_pick", vi_pick(n, c, d), ints);
    for (int i = 0; i < VL; i++) {
        ints[i] = (int32_t)((uint32_t)p[i] + (p[i] > q[i]));
    }
    expect_ints("vi_count", vi_count(c, n), ints);
}

static void check_integers(const int32_t *p, const int32_t *q)
{
    const vi c = vi_load(p);
    const vi d = vi_load(q);
    int32_t want[VL];
    LANES((int32_t)((uint32_t)p[i] + (uint32_t)q[i])) expect_ints("vi_add", vi_add(c, d), want);
    LANES((int32_t)((uint32_t)p[i] - (uint32_t)q[i])) expect_ints("vi_sub", vi_sub(c, d), want);
    LANES((int32_t)((uint32_t)p[i] * (uint32_t)q[i])) expect_ints("vi_mul", vi_mul(c, d), want);
    LANES(p[i] < q[i] ? p[i] : q[i]) expect_ints("vi_min", vi_min(c, d), want);
    LANES(p[i] > q[i] ? p[i] : q[i]) expect_ints("vi_max", vi_max(c, d), want);
    LANES(p[i] & q[i]) expect_ints("vi_and", vi_and(c, d), want);
    LANES(p[i] | q[i]) expect_ints("vi_or", vi_or(c, d), want);
    LANES((int32_t)((uint32_t)p[i] >> 13)) expect_ints("vi_shr", vi_shr(c, 13), want);
    LANES((int32_t)((uint32_t)p[i] << 5)) expect_ints("vi_shl", vi_shl(c, 5), want);
    LANES(p[7]) expect_ints("vi_set", vi_set(p[7]), want);
    int32_t max = p[0];
    uint32_t sum = 0;
    for (int i = 0; i < VL; i++) {
        max = p[i] > max ? p[i] : max;
        sum += (uint32_t)p[i];
    }
    if (vi_reduce_max(c) != max) {
        fail("vi_reduce_max", -1, (uint32_t)vi_reduce_max(c), (uint32_t)max);
    }
    if ((uint32_t)vi_reduce_add(c) != sum) {
        fail("vi_reduce_add", -1, (uint32_t)vi_reduce_add(c), sum);
    }
}

static void check_conversions(const float *x, const int32_t *p)
{
    const vf a = vf_load(x);
    const vi c = vi_load(p);
    int32_t want[VL];
    float floats[VL];
    LANES(qni_trunc_i32(x[i])) expect_ints("vi_trunc", vi_trunc(a), want);
    LANES(qni_nearest(x[i])) expect_ints("vi_nearest", vi_nearest(a), want);
    for (int i = 0; i < VL; i++) {
        floats[i] = (float)p[i];
    }
    expect_floats("vf_from_vi", vf_from_vi(c), floats);

    uint8_t bytes[VL + 2] = {0};
    uint16_t words[VL + 2] = {0};
    int8_t twice[2 * VL + 2] = {0};
    int32_t small[VL];
    for (int i = 0; i < VL; i++) {
        small[i] = (p[i] & 0xff) - 128;
    }
    vi_store_u8(bytes + 1, c);
    vi_store_u16(words + 1, c);
    vi_store_i8x2(twice + 1, vi_load(small), vi_sub(vi_set(-1), vi_load(small)));
    for (int i = 0; i < VL; i++) {
        if (bytes[1 + i] != (uint8_t)p[i]) {
            fail("vi_store_u8", i, bytes[1 + i], (uint8_t)p[i]);
        }
        if (words[1 + i] != (uint16_t)p[i]) {
            fail("vi_store_u16", i, words[1 + i], (uint16_t)p[i]);
        }
        if (twice[1 + i] != small[i] || twice[1 + VL + i] != -1 - small[i]) {
            fail("vi_store_i8x2", i, (uint32_t)twice[1 + i], (uint32_t)small[i]);
        }
    }
    if (bytes[0] || bytes[VL + 1] || words[0] || words[VL + 1] || twice[0] || twice[2 * VL + 1]) {
        fail("a store wrote outside", -1, 1, 0);
    }
    LANES((uint8_t)p[i]) expect_ints("vi_load_u8", vi_load_u8(bytes + 1), want);
}

static void check_halves(const float *x)
{
    uint16_t halves[VL + 1];
    float want[VL];
    vf_store_f16(halves + 1, vf_load(x));
    for (int i = 0; i < VL; i++) {
        const uint16_t half = qni_f16_from_f32(x[i]);
        if (halves[1 + i] != half && !is_nan_bits(qni_f32_bits(x[i]))) {
            fail("vf_store_f16", i, halves[1 + i], half);
        }
        halves[1 + i] = half;
        want[i] = qni_f16_to_f32(half);
    }
    expect_floats("vf_load_f16", vf_load_f16(halves + 1), want);
}

static void expect_bytes(const char *what, vb got, const uint8_t *want)
{
    int32_t lanes[VL];
    vi_store(lanes, vi_from_u8(got));
    for (int i = 0; i < VL; i++) {
        if (lanes[i] != want[i]) {
            fail(what, i, (uint32_t)lanes[i], want[i]);
        }
    }
}

#define BYTES(expression)                 \
    for (int i = 0; i < VL; i++) {        \
        bytes[i] = (uint8_t)(expression); \
    }

/* Sixteen bytes: what blocks are unpacked with. */
static void check_bytes(const int32_t *p, const int32_t *q)
{
    uint8_t x[VL + 1];
    uint8_t y[VL + 1];
    uint8_t bytes[VL];
    for (int i = 0; i < VL; i++) {
        x[1 + i] = (uint8_t)p[i];
        y[1 + i] = (uint8_t)q[i];
    }
    const vb a = vb_load(x + 1);
    const vb b = vb_load(y + 1);
    BYTES(x[1 + i]) expect_bytes("vb_load", a, bytes);
    BYTES(i < 8 ? x[1 + i] : 0) expect_bytes("vb_load8", vb_load8(x + 1), bytes);
    BYTES(p[0]) expect_bytes("vb_set", vb_set((int8_t)x[1]), bytes);
    BYTES((uint32_t)p[i / 4] >> (8 * (i % 4)))
    expect_bytes("vb_words",
                 vb_words((uint32_t)p[0], (uint32_t)p[1], (uint32_t)p[2], (uint32_t)p[3]), bytes);
    BYTES(x[1 + i] & y[1 + i]) expect_bytes("vb_and", vb_and(a, b), bytes);
    BYTES(x[1 + i] | y[1 + i]) expect_bytes("vb_or", vb_or(a, b), bytes);
    BYTES(x[1 + i] + y[1 + i]) expect_bytes("vb_add", vb_add(a, b), bytes);
    BYTES(x[1 + i] - y[1 + i]) expect_bytes("vb_sub", vb_sub(a, b), bytes);
    BYTES(x[1 + i] >> 3 & 31) expect_bytes("vb_shr", vb_and(vb_shr(a, 3), vb_set(31)), bytes);
    BYTES(x[1 + i] << 2 & 0xfc) expect_bytes("vb_shl", vb_and(vb_shl(a, 2), vb_set(-4)), bytes);
    BYTES(i < 8 ? x[1 + i] : y[1 + i - 8]) expect_bytes("vb_join", vb_join(a, b), bytes);
    BYTES(i % 2 ? y[1 + i / 2] : x[1 + i / 2]) expect_bytes("vb_zip", vb_zip(a, b), bytes);
    BYTES(x[1 + i] >= 86 ? 255 : 0) expect_bytes("vb_at_least", vb_at_least(a, 86), bytes);
    BYTES(x[1 + i] >= 171 ? 255 : 0) expect_bytes("vb_at_least", vb_at_least(a, 171), bytes);
    BYTES(x[1 + (y[1 + i] & 15)])
    expect_bytes("vb_look", vb_look(a, vb_and(b, vb_set(15))), bytes);
    BYTES((uint32_t)p[0] >> i & 1 ? 255 : 0)
    expect_bytes("vb_bits", vb_bits((uint32_t)p[0], 0), bytes);
    BYTES((uint32_t)p[0] >> (16 + i) & 1 ? 255 : 0)
    expect_bytes("vb_bits", vb_bits((uint32_t)p[0], 1), bytes);
    BYTES(x[1 + i] & ~y[1 + i]) expect_bytes("vb_but", vb_but(a, b), bytes);

    int32_t want[VL];
    int8_t narrow[VL];
    memcpy(narrow, x + 1, VL);
    LANES(x[1 + i]) expect_ints("vi_from_u8", vi_from_u8(a), want);
    LANES(narrow[i]) expect_ints("vi_from_i8", vi_from_i8(a), want);
    LANES(narrow[i]) expect_ints("vi_load_i8", vi_load_i8(narrow), want);
}

/* Look-ups and fields of bits. */
static void check_unpacking(const float *x, const int32_t *p)
{
    int32_t want[VL];
    float floats[VL];
    uint8_t words[2 * VL + 1];
    for (int i = 0; i < VL; i++) {
        qni_store_u16le(words + 1 + 2 * i, (uint16_t)p[i]);
    }
    LANES((uint16_t)p[i]) expect_ints("vi_load_u16", vi_load_u16(words + 1), want);
    LANES((int32_t)((uint32_t)p[0] >> (2 * i)))
    expect_ints("vi_unpack2", vi_unpack2((uint32_t)p[0]), want);
    LANES((int32_t)((uint32_t)p[i / 8] >> (4 * (i % 8))))
    expect_ints("vi_unpack4", vi_unpack4((uint32_t)p[0], (uint32_t)p[1]), want);

    float twice[VL];
    for (int i = 0; i < VL; i++) {
        twice[i] = x[i % 8];
        floats[i] = x[i / 4 * 4 + (p[i] & 3)];
    }
    expect_floats("vf_look4", vf_look4(vf_load(x), vi_load(p)), floats);
    for (int i = 0; i < VL; i++) {
        floats[i] = twice[p[i] & 7];
    }
    expect_floats("vf_look8", vf_look8(vf_load(twice), vi_load(p)), floats);

    float flipped[VL];
    vf_store(flipped, vf_flip(vf_load(x), (uint32_t)p[0]));
    for (int i = 0; i < VL; i++) { /* of a NaN too */
        const uint32_t bits = qni_f32_bits(x[i]) ^ ((uint32_t)p[0] >> i & 1) << 31;
        if (qni_f32_bits(flipped[i]) != bits) {
            fail("vf_flip", i, qni_f32_bits(flipped[i]), bits);
        }
    }
    for (int i = 0; i < VL; i++) {
        floats[i] = qni_f16_to_f32((uint16_t)p[0]);
    }
    expect_floats("vf_set_f16", vf_set_f16(words + 1), floats);
    if (qni_f32_bits(vec_f16(words + 1)) != qni_f32_bits(floats[0])) {
        fail("vec_f16", -1, qni_f32_bits(vec_f16(words + 1)), qni_f32_bits(floats[0]));
    }
}

#undef BYTES

static void check_reductions(const float *x)
{
    float numbers[VL];
    float min = INFINITY;
    float max = -INFINITY;
    for (int i = 0; i < VL; i++) {
        numbers[i] = x[i] == x[i] ? x[i] : 1.0f;
        min = numbers[i] < min ? numbers[i] : min;
        max = numbers[i] > max ? numbers[i] : max;
    }
    const float got_min = vf_reduce_min(vf_load(numbers));
    const float got_max = vf_reduce_max(vf_load(numbers));
    if (!(got_min == min)) { /* == : either zero is right */
        fail("vf_reduce_min", -1, qni_f32_bits(got_min), qni_f32_bits(min));
    }
    if (!(got_max == max)) {
        fail("vf_reduce_max", -1, qni_f32_bits(got_max), qni_f32_bits(max));
    }
}

static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* The rule of the reference, written out. */
static int32_t iq4_place(float v)
{
    if (v <= -127.0f) {
        return 0;
    }
    if (!(v < 113.0f)) {
        return 15;
    }
    int above = 1;
    while (v >= (float)iq4_table[above]) {
        above++;
    }
    const float down = v - (float)iq4_table[above - 1];
    const float up = (float)iq4_table[above] - v;
    return down < up ? above - 1 : above;
}

static void check_iq4(const float *x)
{
    float near[VL];
    float values[VL];
    int32_t want[VL];
    LANES(iq4_place(x[i])) expect_ints("vi_iq4_codes", vi_iq4_codes(vf_load(x)), want);
    for (int i = 0; i < VL; i++) {
        near[i] = fabsf(x[i]) < 1000.0f ? x[i] : 5.0f;
        values[i] = (float)iq4_table[iq4_place(near[i])];
    }
    expect_floats("vf_iq4_values", vf_iq4_values(vf_load(near)), values);
}

/* The floats next to every multiple of 1/2, where all decisions of iq4 lie. */
static void check_iq4_borders(void)
{
    for (int32_t twice = -300; twice <= 300; twice++) {
        float x[VL];
        for (int i = 0; i < VL; i++) {
            const uint32_t bits = qni_f32_bits((float)twice * 0.5f);
            x[i] = twice ? qni_f32_from_bits(bits + (uint32_t)i - 8) : (float)(i - 8) * 1e-40f;
        }
        check_iq4(x);
    }
}

static void check_transpose(void)
{
    enum { COLUMNS = 40 };
    static float rows[VL][COLUMNS];
    static float out[VL * 32 + 1];
    const float *pointers[VL];
    for (int lane = 0; lane < VL; lane++) {
        pointers[lane] = rows[lane];
        for (int i = 0; i < COLUMNS; i++) {
            rows[lane][i] = (float)(100 * lane + i);
        }
    }
    for (int at = 0; at < 8; at++) {
        for (int n = 16; n <= 32; n += 16) {
            out[VL * n] = -1.0f;
            vec_transpose(pointers, at, n, out);
            for (int i = 0; i < n; i++) {
                expect_floats("vec_transpose", vf_load(out + VL * i),
                              (const float[VL]){rows[0][at + i], rows[1][at + i], rows[2][at + i],
                                                rows[3][at + i], rows[4][at + i], rows[5][at + i],
                                                rows[6][at + i], rows[7][at + i], rows[8][at + i],
                                                rows[9][at + i], rows[10][at + i], rows[11][at + i],
                                                rows[12][at + i], rows[13][at + i],
                                                rows[14][at + i], rows[15][at + i]});
            }
            if (out[VL * n] != -1.0f) {
                fail("vec_transpose wrote past its end", n, 0, 1);
            }
        }
    }
}

#undef LANES
#undef MASK

int VEC_NAME(check_vec)(void)
{
    for (int round = 0; round < N_ROUNDS; round++) {
        float x[VL];
        float y[VL];
        int32_t p[VL];
        int32_t q[VL];
        for (int i = 0; i < VL; i++) {
            x[i] = next_float();
            y[i] = next_random() % 4 ? next_float() : x[i];
            p[i] = (int32_t)next_random() >> next_random() % 31;
            q[i] = next_random() % 4 ? (int32_t)next_random() : p[i];
        }
        check_arithmetic(x, y);
        check_comparisons(x, y, p, q);
        check_integers(p, q);
        check_conversions(x, p);
        check_halves(x);
        check_bytes(p, q);
        check_unpacking(x, p);
        check_reductions(x);
        check_iq4(x);
    }
    check_iq4_borders();
    check_transpose();
    return n_failed;
}
