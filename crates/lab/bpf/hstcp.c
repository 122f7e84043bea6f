/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * HighSpeed TCP: RFC 3649. How fast the window grows and how much is given up both follow from the window, such that a
 * loss in ten million segments allows 83 000 segments. Slow start is limited as RFC 3742 recommends for it.
 */
#include "lh.h"

/* RFC 3742, section 2: above it slow start opens the window by at most half of it a round trip, in segments. */
#define MAX_SSTHRESH 100u

struct row {
	__u32 increase; /* a(w), segments a round trip, in 1024ths */
	__u32 decrease; /* b(w), a share, in 1024ths */
};

/*
 * a(w) and b(w) of RFC 3649, section 5, for windows of 32 to 131 072 segments, four for each doubling: 32, 40, 48, 56,
 * 64, 80 and so on. The straight lines between them are within 1 % and 0.003 of the formulas; a test of the crate holds
 * the table against them. Below Low_Window = 38 it is Reno.
 */
static const struct row table[] = {
	{1024, 512}, {1024, 509}, {1141, 500}, {1262, 491}, {1378, 484}, {1595, 472}, {1796, 463}, {1986, 454},
	{2165, 447}, {2501, 435}, {2812, 426}, {3104, 417}, {3381, 410}, {3896, 398}, {4372, 389}, {4818, 381},
	{5238, 373}, {6020, 362}, {6739, 352}, {7410, 344}, {8041, 337}, {9209, 325}, {10279, 315}, {11271, 307},
	{12201, 300}, {13913, 288}, {15468, 278}, {16903, 270}, {18240, 263}, {20681, 251}, {22878, 241}, {24886, 233},
	{26741, 226}, {30088, 214}, {33056, 204}, {35732, 196}, {38170, 189}, {42486, 177}, {46219, 167}, {49502, 159},
	{52422, 152}, {57403, 140}, {61497, 130}, {64907, 122}, {67766, 115}, {72192, 103}, {82933, 102}, {93818, 102},
	{104395, 102},
};
#define TABLE_WINDOW_MIN 32u
#define TABLE_WINDOW_MAX 131071u

struct hstcp {
	__u64 credit;
};
_Static_assert(sizeof(struct hstcp) <= PRIVATE_BYTES, "the kernel leaves a rule so much room");

/* Between two rows: the straight line. */
static __always_inline __u64 between(__u64 from, __u64 to, __u64 way, __u64 whole)
{
	return (from * (whole - way) + to * way) / whole;
}

/* What holds for a window; beyond the ends of the table the values there. */
static __always_inline struct row look_up(__u32 window)
{
	__u32 inside = at_most(at_least(window, TABLE_WINDOW_MIN), TABLE_WINDOW_MAX);
	__u32 doublings = 0, whole, way, at;
	struct row low, high;

	for (__u32 border = 2 * TABLE_WINDOW_MIN; border <= TABLE_WINDOW_MAX; border *= 2)
		doublings += inside >= border;
	whole = (TABLE_WINDOW_MIN / 4) << doublings;
	way = inside % whole;
	at = doublings * 4 + inside / whole % 4;

	/* Never so; the kernel's verifier does not see that. */
	if (at >= sizeof(table) / sizeof(table[0]) - 1)
		return table[0];
	low = table[at];
	high = table[at + 1];
	return (struct row){
		.increase = between(low.increase, high.increase, way, whole),
		.decrease = between(low.decrease, high.decrease, way, whole),
	};
}

/* RFC 3742, section 2: with K = int(window / (MAX_SSTHRESH / 2)), 1/K segment for each one acknowledged. */
static __always_inline __u64 limited_gain(__u32 window)
{
	return window * ONE / at_least(window / (MAX_SSTHRESH / 2), 1);
}

SEC("struct_ops/lh_hstcp_init")
void BPF_PROG(lh_hstcp_init, struct sock *sk)
{
	struct hstcp *own = private_of(sk);

	own->credit = 0;
}

SEC("struct_ops/lh_hstcp_cong_avoid")
void BPF_PROG(lh_hstcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct hstcp *own = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);

	if (!is_window_limited(tp))
		return;
	if (in_slow_start(tp) && tp->snd_cwnd > MAX_SSTHRESH) {
		grow(tp, &own->credit, acked, limited_gain(tp->snd_cwnd));
		return;
	}
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	grow(tp, &own->credit, acked, look_up(tp->snd_cwnd).increase);
}

SEC("struct_ops/lh_hstcp_ssthresh")
__u32 BPF_PROG(lh_hstcp_ssthresh, struct sock *sk)
{
	struct hstcp *own = private_of(sk);
	struct tcp_sock *tp = tcp_of(sk);

	own->credit = 0;
	return reduced(tp, ONE - look_up(tp->snd_cwnd).decrease);
}

SEC("struct_ops/lh_hstcp_undo_cwnd")
__u32 BPF_PROG(lh_hstcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops lh_hstcp = {
	.init = (void *)lh_hstcp_init,
	.cong_avoid = (void *)lh_hstcp_cong_avoid,
	.ssthresh = (void *)lh_hstcp_ssthresh,
	.undo_cwnd = (void *)lh_hstcp_undo_cwnd,
	.flags = LH_FLAGS,
	.name = "lh_hstcp",
};
