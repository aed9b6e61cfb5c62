/* Whose code runs when: one attempt under a lease that is beaten or not, and the next attempt, on a clock that ticks.

   The other models have no clock and so cannot say that the code of two attempts never overlaps: that needs the deadlines.
   The owner's supervisor may be slow, cut off, or die at any tick. A tick passes only when what is due at once has happened:
   the guard's kill, and the supervisor's kill of code that stands still. The store's clock may once step
   forward by one, half the margin. The name of a mutant as -D takes one guard out. */

#define TTL 5
#define MARGIN 2
#define PROGRESS_WITHIN 3
#define GRACE 1
#if defined(STEP_OF_MARGIN)
#define STEPS 2
#else
#define STEPS 1
#endif

#if defined(NO_GUARD)
#define GUARD_AFTER 99
#else
#define GUARD_AFTER (TTL - MARGIN / 2)
#endif
#define STOP_AFTER (TTL - MARGIN)

#if defined(OTHERS_JUDGE_AT_ONCE)
#define OTHERS_JUDGE_AFTER PROGRESS_WITHIN
#elif defined(OTHERS_JUDGE_WITHOUT_TTL)
#define OTHERS_JUDGE_AFTER (PROGRESS_WITHIN + GRACE)
#else
#define OTHERS_JUDGE_AFTER (PROGRESS_WITHIN + TTL + GRACE)
#endif

/* The job: the first attempt's, nobody's, the next attempt's, or finished. */
#define FIRST 0
#define NOBODY 1
#define NEXT 2
#define FINISHED 3

byte place = FIRST;
bit is_ended;                       /* the first lease */
bit first_runs, first_began, next_runs;
bit has_supervisor = 1;
byte steps = STEPS;

/* Ticks: since the lease was last renewed, on the store's clock; since the beat that was last answered was sent, on the
   machine's; since the beat under way was sent; since the code last moved, as its supervisor and as the row has it; since the
   claim. None is counted further than anybody looks. */
byte unrenewed, unbeaten, sent, unmoved, row_unmoved, age;

#define NO_BEAT 0
#define SENT 1
#define ANSWERED 2
byte beat = SENT;                   /* the claim came after one: nothing is known of its answer yet */

#define LATER(ticks, last) ticks = (ticks < last -> ticks + 1 : last)
#define IS_KILL_DUE (first_runs && unbeaten >= GUARD_AFTER)
#define IS_STALL_DUE (first_runs && has_supervisor && unmoved >= PROGRESS_WITHIN + GRACE)

inline stop_first() { first_runs = 0 }

inline hear() {
#ifdef DEADLINE_FROM_ANSWER
    unbeaten = 0;
#else
    if :: sent < unbeaten -> unbeaten = sent :: else fi;
#endif
    beat = NO_BEAT; sent = 0
}

active proctype Clock() {
    do
    :: atomic { !IS_KILL_DUE && !IS_STALL_DUE ->
        LATER(unrenewed, TTL + 1); LATER(unbeaten, TTL); LATER(age, TTL + 1);
        if :: beat != NO_BEAT -> LATER(sent, TTL) :: else fi;
        if :: first_runs -> LATER(unmoved, PROGRESS_WITHIN + GRACE) :: else -> unmoved = 0 fi;
        if :: first_began && place == FIRST -> LATER(row_unmoved, OTHERS_JUDGE_AFTER + 1) :: else -> row_unmoved = 0 fi }
    :: atomic { steps > 0 -> steps--;
        LATER(unrenewed, TTL + 1); LATER(row_unmoved, OTHERS_JUDGE_AFTER + 1) }
    od
}

active proctype Supervisor() {
    do
    :: atomic { has_supervisor && beat == NO_BEAT && !is_ended -> beat = SENT; sent = 0 }
    :: atomic { beat == SENT && !is_ended -> unrenewed = 0; beat = ANSWERED }
    :: atomic { beat == ANSWERED && has_supervisor -> hear() }
    :: atomic { beat != NO_BEAT -> beat = NO_BEAT; sent = 0 }                               /* lost, or its answer */
    :: atomic { first_runs && has_supervisor && unmoved >= PROGRESS_WITHIN ->               /* stalled */
#ifdef SETTLE_BEFORE_CODE_STOPS
        if :: place == FIRST -> place = NOBODY :: else fi; unmoved = 0 }
#else
        stop_first(); if :: place == FIRST -> place = NOBODY :: else fi }
#endif
    :: atomic { has_supervisor -> has_supervisor = 0 }                                      /* killed, or frozen for good */
    od
}

/* The guard is a process of its own: it kills without anybody's help. */
active proctype Guard() { do :: atomic { IS_KILL_DUE -> stop_first() } od }

active proctype First() {
    do
    :: atomic { !first_began &&
#ifndef START_PAST_DEADLINE
        unbeaten < STOP_AFTER &&
#endif
        place == FIRST -> first_began = 1; first_runs = 1; unmoved = 0; row_unmoved = 0 }
    :: atomic { first_runs -> unmoved = 0; row_unmoved = 0 }                                /* it moves, and says so */
    :: atomic { first_runs && unbeaten >= STOP_AFTER -> stop_first() }                      /* what can be cancelled */
    :: atomic { first_runs -> stop_first(); if :: place == FIRST -> place = FINISHED :: else fi }
    od
}

active proctype Others() {
    do
#ifdef RESCUE_BY_AGE
    :: atomic { place == FIRST && age > TTL -> is_ended = 1; place = NOBODY }
#endif
    :: atomic { place == FIRST && unrenewed > TTL -> is_ended = 1; place = NOBODY }
    :: atomic { place == FIRST && first_began && row_unmoved > OTHERS_JUDGE_AFTER -> place = NOBODY }
    :: atomic { place == NOBODY -> place = NEXT; next_runs = 1;
        assert(!first_runs) }                                           /* S8: the code of two attempts never runs at once */
    :: atomic { next_runs -> next_runs = 0; place = FINISHED }
    od
}
