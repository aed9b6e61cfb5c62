-- Start the claimed jobs of a lease through a claim number, unless the lease has ended or has another number of voids.
-- exchange_tally.sql returns whether it landed.
--
-- A temporary trigger, because it writes two tables in one step: see exchange.sql. The start is written on each row at once: this
-- store gains little by claiming ahead, and so every other query reads rows as they are.
CREATE TEMP VIEW holdfast_start_through (lease, claim_number, voids) AS
SELECT NULL, NULL, NULL;

CREATE TEMP TRIGGER holdfast_start_claimed INSTEAD OF INSERT ON holdfast_start_through
BEGIN
    UPDATE holdfast_leases SET started = max(started, NEW.claim_number)
    WHERE id = NEW.lease AND ended_at IS NULL AND voids = NEW.voids;
    UPDATE holdfast_tally SET applied = changes();
    UPDATE holdfast_jobs SET state = 'running', attempt = attempt + 1, started_at = claimed_at
    WHERE lease = NEW.lease AND state IN ('claimed', 'running') AND state = 'claimed' AND claim_number <= NEW.claim_number
        AND (SELECT tally.applied FROM holdfast_tally AS tally);
END;

-- call
INSERT INTO holdfast_start_through (lease, claim_number, voids) VALUES (:lease, :number, :voids);
