/*
 * Whose an instance is: two places whose states have equal owner texts, one instance, and the word that a result was received
 * (provider/host/instance/admission.ts, confirmation.ts, wire.ts; provider/ssh/run.ts). One atomic step for each thing that another
 * can see. Nobody adopts. Nothing bounds the number of commands or kills.
 *
 * Taken out one at a time: M_CONFIRMED a confirmed instance is not taken over; M_PLACE ... unless the same place asks; M_SEEN ... again, after it was
 * confirmed; M_ACK ... and no
 * state has named it; M_LOCK the create keeps the instance's lock until its requester has answered; M_ENGINE a requester whose engine
 * has gone does not confirm. A mutation of 1 takes its rule out.
 *
 * HAD   what a state has, and was not warned of, is what the host has: nobody else has taken it
 * HEAL  a create is refused only for what a state has, or for what an engine confirmed before it was killed
 */
#ifndef M_CONFIRMED
#define M_CONFIRMED 0
#endif
#ifndef M_PLACE
#define M_PLACE 0
#endif
#ifndef M_SEEN
#define M_SEEN 0
#endif
#ifndef M_ACK
#define M_ACK 0
#endif
#ifndef M_LOCK
#define M_LOCK 0
#endif
#ifndef M_ENGINE
#define M_ENGINE 0
#endif

#define HAD 31
#define HEAL 32

/* The record: incarnation (0: no record), what it says of its requester, and whether a state has named it. */
byte r_inc, r_place;
bool r_conf, r_ack;
/* Truth: its engine was killed after it had confirmed. */
bool r_orphan;

/* A place: the incarnation in its state, and whether it was warned. */
byte st[2];
bool warned[2];

/* A host program: 0 idle, 1 asked, 2 saved, 3 answered, 4 ended well, 5 ended unconfirmed, 6 killed, 7 refused. Its provider: whether its
 * engine lives, what it has said (1 received, 2 closed) and whether its engine lived then. And what was confirmed when it was asked. */
byte pc[2], who[2], inc[2], word[2], seen[2];
bool engine[2], saw[2];
byte il;	/* 0, or the host program that has the lock, from 1 */

#define SAME(k)		(r_place == who[k] && (seen[k] == r_inc || M_SEEN))
#define TAKES(k)	((!r_ack || M_ACK) && (!r_conf || M_CONFIRMED || SAME(k) || M_PLACE))
#define RUNS(i, k)	(engine[k] && who[k] == i)
/* Its state has the instance, or its engine is about to write it down. */
#define HAS(i)		(st[i] == r_inc || (RUNS(i, 0) && inc[0] == r_inc) || (RUNS(i, 1) && inc[1] == r_inc))
/* An incarnation that nobody knows. */
#define FREE(n)		(r_inc != n && inc[0] != n && inc[1] != n && seen[0] != n && seen[1] != n && st[0] != n && st[1] != n)
#define FRESH		(FREE(1) -> 1 : (FREE(2) -> 2 : (FREE(3) -> 3 : (FREE(4) -> 4 : (FREE(5) -> 5 : 6)))))
#define IDLE(k)		pc[k] = 0; inc[k] = 0; seen[k] = 0; word[k] = 0; saw[k] = 0
#define LETGO(k)	il = (il == k + 1 -> 0 : il)
#define QUIET(i)	(st[i] != 0 && !RUNS(i, 0) && !RUNS(i, 1) && il == 0)

/* An up of place i without a state begins: its provider asks host program k, which looks at the record first of all. */
#define ASK(i, k) \
	:: atomic { st[i] == 0 && !RUNS(i, 0) && !RUNS(i, 1) && pc[k] == 0 -> \
		inc[k] = FRESH; engine[k] = 1; saw[k] = 0; word[k] = 0; \
		pc[k] = 1; who[k] = i; seen[k] = (r_conf -> r_inc : 0) }
/* The lock, the record, and the new record: nobody sees what is between. */
#define ADMIT(k) \
	:: atomic { pc[k] == 1 && il == 0 -> \
		if \
		:: r_inc == 0 || TAKES(k) -> \
			r_inc = inc[k]; r_place = who[k]; r_conf = 0; r_ack = 0; r_orphan = 0; il = k + 1; pc[k] = 2 \
		:: else -> \
			assert(!(HEAL) || HAS(0) || HAS(1) || r_orphan); pc[k] = 7 \
		fi }
#define ANSWER(k) \
	:: atomic { pc[k] == 2 -> pc[k] = 3; if :: M_LOCK -> LETGO(k) :: else -> skip fi }
/* The provider has the result: it confirms for an engine that lives, and closes its end for one that has gone. */
#define WORD(k) \
	:: atomic { pc[k] == 3 && word[k] == 0 -> saw[k] = engine[k]; word[k] = (engine[k] || M_ENGINE -> 1 : 2) }
#define SAVE(k) \
	:: atomic { pc[k] == 3 && word[k] == 1 -> \
		if \
		:: r_inc == inc[k] -> r_conf = 1; r_orphan = (saw[k] && !engine[k]) \
		:: else -> skip \
		fi; \
		LETGO(k); pc[k] = 4 }
/* The other end is closed, or nothing is heard in time. */
#define UNSAVED(k) \
	:: atomic { pc[k] == 3 && word[k] != 1 -> LETGO(k); pc[k] = 5 }
#define DIE(k) \
	:: atomic { pc[k] >= 1 && pc[k] <= 3 -> LETGO(k); pc[k] = 6 }
/* The channel has closed: the resource is made, with a warning if that may not be saved, or its result is unknown, or it is refused. */
#define CHECKPOINT(k) \
	:: atomic { engine[k] && pc[k] >= 4 -> \
		if \
		:: pc[k] == 7 -> skip \
		:: else -> st[who[k]] = inc[k]; warned[who[k]] = (pc[k] != 4) \
		fi; \
		engine[k] = 0; IDLE(k) }
/* The CLI is killed; its provider and its host program live on. */
#define KILL(k) \
	:: atomic { engine[k] -> engine[k] = 0; r_orphan = (r_conf && r_inc == inc[k] && saw[k] -> 1 : r_orphan) }
/* Its provider goes too. */
#define GONE(k) \
	:: atomic { !engine[k] && pc[k] >= 1 && pc[k] <= 3 && word[k] == 0 -> word[k] = 2 }
#define REAP(k) \
	:: atomic { !engine[k] && pc[k] >= 4 -> IDLE(k) }
/* A refresh or an update, and a destroy: an old incarnation touches nothing, and its state is told. */
#define NAME(i) \
	:: atomic { QUIET(i) -> if :: r_inc == st[i] -> r_ack = 1; warned[i] = 0 :: else -> skip fi }
#define DESTROY(i) \
	:: atomic { QUIET(i) -> \
		if :: r_inc == st[i] -> r_inc = 0; r_conf = 0; r_ack = 0; r_orphan = 0; r_place = 0 :: else -> skip fi; \
		st[i] = 0; warned[i] = 0 }

#define KEPT(i)	(st[i] == 0 || warned[i] || r_inc == st[i])

active proctype World() {
	do
	ASK(0, 0) ASK(0, 1) ASK(1, 0) ASK(1, 1)
	ADMIT(0) ADMIT(1)
	ANSWER(0) ANSWER(1)
	WORD(0) WORD(1)
	SAVE(0) SAVE(1)
	UNSAVED(0) UNSAVED(1)
	DIE(0) DIE(1)
	CHECKPOINT(0) CHECKPOINT(1)
	KILL(0) KILL(1)
	GONE(0) GONE(1)
	REAP(0) REAP(1)
	NAME(0) NAME(1)
	DESTROY(0) DESTROY(1)
	od
}

/* Asked between any two steps. */
active proctype Asked() {
end:	atomic { !(KEPT(0) && KEPT(1)) -> assert(!(HAD) || false) }
}
