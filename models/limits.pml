/* A limit across workers: jobs of one key, LIMIT of which may be somebody's at once. Workers that are cut off, frozen, killed;
   claims and settles whose answers are lost, or whose copies arrive later; rescuers.

   A slot is a row that is somebody's: it is counted in the very write that claims, and free with the write that moves the job.
   A worker lives once and has one lease. That the code of a lease has stopped when the lease is ended is clocks.pml's; who owns
   a job is ownership.pml's. The name of a mutant as -D takes one guard out. */

#ifndef FAULTS
#define FAULTS 2
#endif
#define LIMIT 1
#define WORKERS 3
#define JOBS 2
#define CLAIMS 2 /* of a job: a worker's outcome ends its last attempt, and so does a crash */

#define PENDING 0
#define ACTIVE 1
#define FINISHED 2

#define ALIVE 0
#define EXPIRED 1
#define ENDED 2

byte place[JOBS], owner[JOBS], number[JOBS];
byte lease[WORKERS];
bit is_dead[WORKERS];
byte running[WORKERS * JOBS];       /* the number of the claim that this worker's code runs, or 0 */
byte copy_of[JOBS], copy_by[JOBS];  /* a settle on its way: the claim's number and worker */
byte faults = FAULTS;
byte i, k, taken, codes;

#define RUNNING(w, j) running[(w) * JOBS + (j)]
#define OWNS(w, j, n) (place[j] == ACTIVE && owner[j] == w && number[j] == n)

#if defined(SETTLE_BY_JOB)
#define MAY_SETTLE(w, j, n) (place[j] == ACTIVE)
#else
#define MAY_SETTLE(w, j, n) OWNS(w, j, n)
#endif

#if defined(COUNT_SKIPS_EXPIRED)
#define COUNTS(j) (place[j] == ACTIVE && lease[owner[j]] == ALIVE)
#else
#define COUNTS(j) (place[j] == ACTIVE)
#endif

#if defined(FREED_BY_EVERY_COPY) || defined(KEPT_BY_RESCUE)
byte counter;                       /* a number beside the rows, instead of the rows */
#define SLOTS counter
#define COUNT(by) counter = counter + (by)
#else
#define SLOTS (COUNTS(0) + COUNTS(1))
#define COUNT(by) skip
#endif

inline check() {
    d_step {
        taken = 0; codes = 0;
        for (i : 0 .. JOBS - 1) { if :: place[i] == ACTIVE -> taken++ :: else fi }
        for (i : 0 .. WORKERS * JOBS - 1) { if :: running[i] > 0 -> codes++ :: else fi }
        assert(taken <= LIMIT);     /* S12: no more jobs are somebody's than the limit says */
        assert(codes <= LIMIT);     /* S12: no more code runs than the limit says */
        i = 0; taken = 0; codes = 0
    }
}

inline leave(j) {
    place[j] = (number[j] < CLAIMS -> PENDING : FINISHED)
}

inline take(w, j) {
    place[j] = ACTIVE; owner[j] = w; number[j]++; COUNT(1);
    if
    :: RUNNING(w, j) = number[j]                        /* the answer arrives, and the code begins */
    :: faults > 0 -> faults--                           /* it is lost: the worker does not know */
    fi
}

/* `is_last`: the job is done; otherwise it is to be tried again. */
inline settle(w, j, n) {
    if
    :: MAY_SETTLE(w, j, n) ->
        if :: place[j] = FINISHED :: leave(j) fi;
        COUNT(-1)
    :: else ->
#ifdef FREED_BY_EVERY_COPY
        if :: counter > 0 -> COUNT(-1) :: else fi
#endif
        skip
    fi
}

proctype Worker(byte w) {
    byte j, n;
#ifdef COUNTED_EARLIER
    bit saw_room;
#endif
end:
    do
#ifdef COUNTED_EARLIER
    :: atomic { !is_dead[w] && !saw_room && SLOTS < LIMIT -> saw_room = 1 }
    :: atomic { saw_room && lease[w] == ALIVE && !is_dead[w] ->
        saw_room = 0;
        if :: place[0] == PENDING -> j = 0 :: place[1] == PENDING -> j = 1 :: else -> j = JOBS fi;
        if :: j < JOBS -> take(w, j); check() :: else fi;
        j = 0 }
#elif defined(COUNTED_BY_WORKER)
    :: atomic { lease[w] == ALIVE && !is_dead[w] && RUNNING(w, 0) == 0 && RUNNING(w, 1) == 0 ->
        if :: place[0] == PENDING -> j = 0 :: place[1] == PENDING -> j = 1 :: else -> j = JOBS fi;
        if :: j < JOBS -> take(w, j); check() :: else fi;
        j = 0 }
#else
    :: atomic { lease[w] == ALIVE && !is_dead[w] && SLOTS < LIMIT && (place[0] == PENDING || place[1] == PENDING) ->
        if :: place[0] == PENDING -> j = 0 :: place[1] == PENDING -> j = 1 fi;
        take(w, j); check(); j = 0 }
#endif
    /* The code ends, and its outcome is sent, once more after a lost answer. */
    :: atomic { !is_dead[w] && (RUNNING(w, 0) > 0 || RUNNING(w, 1) > 0) ->
        if :: RUNNING(w, 0) > 0 -> j = 0 :: RUNNING(w, 1) > 0 -> j = 1 fi;
        n = RUNNING(w, j); RUNNING(w, j) = 0;
        settle(w, j, n);
        if
        :: true
        :: faults > 0 && copy_of[j] == 0 -> faults--; copy_of[j] = n; copy_by[j] = w
        fi;
        check(); j = 0; n = 0 }
#ifndef NO_AUDIT
    /* What the store thinks we hold, and we know nothing of, goes back. */
    :: atomic { !is_dead[w] && lease[w] == ALIVE && ((place[0] == ACTIVE && owner[0] == w && RUNNING(w, 0) == 0)
                || (place[1] == ACTIVE && owner[1] == w && RUNNING(w, 1) == 0)) ->
        if
        :: place[0] == ACTIVE && owner[0] == w && RUNNING(w, 0) == 0 -> j = 0
        :: place[1] == ACTIVE && owner[1] == w && RUNNING(w, 1) == 0 -> j = 1
        fi;
        leave(j); COUNT(-1); check(); j = 0 }
#endif
    :: atomic { lease[w] == EXPIRED && !is_dead[w] -> lease[w] = ALIVE }                       /* a beat arrives after all */
    :: atomic { lease[w] == ALIVE && (is_dead[w] || faults > 0) ->                             /* silence */
        if :: is_dead[w] :: else -> faults-- fi;
        lease[w] = EXPIRED }
    :: atomic { !is_dead[w] && faults > 0 && w > 0 -> faults--; is_dead[w] = 1; RUNNING(w, 0) = 0; RUNNING(w, 1) = 0 }
    od
}

inline release(j) {
    leave(j);
#ifndef KEPT_BY_RESCUE
    COUNT(-1);
#endif
    check()
}

/* Ends what has run out, whose code has stopped by then; moves what is left behind, by its token. */
proctype Rescuer() {
end:
    do
    :: atomic { lease[1] == EXPIRED -> lease[1] = ENDED; is_dead[1] = 1; RUNNING(1, 0) = 0; RUNNING(1, 1) = 0 }
    :: atomic { lease[2] == EXPIRED -> lease[2] = ENDED; is_dead[2] = 1; RUNNING(2, 0) = 0; RUNNING(2, 1) = 0 }
    :: atomic { place[0] == ACTIVE && lease[owner[0]] == ENDED -> release(0) }
    :: atomic { place[1] == ACTIVE && lease[owner[1]] == ENDED -> release(1) }
    od
}

/* The copy of a settle arrives at any later moment. */
proctype Network(byte j) {
end:
    do
    :: atomic { copy_of[j] > 0 -> settle(copy_by[j], j, copy_of[j]); copy_of[j] = 0; copy_by[j] = 0; check() }
    od
}

/* When nobody has anything left to do. */
active proctype Watch() {
    timeout ->
    atomic { for (i : 0 .. JOBS - 1) { assert(place[i] == FINISHED) } i = 0 }    /* L2: no slot is held for ever, no job is stuck */
}

init {
    atomic {
        for (k : 0 .. WORKERS - 1) { run Worker(k) }
        for (k : 0 .. JOBS - 1) { run Network(k) }
        run Rescuer();
        k = 0
    }
}
