-- pods from: 17
-- Tokens that agents have reported: one row for each attempt of a turn and each model. An attempt that called its agent and reported
-- nothing has one row without numbers. The day is that on which the turn started, in UTC, so a repeated write finds its row. Rows hold
-- no text and name no user. A partition a month; 13 months are kept.
create table fleetline.usage (
  at timestamptz not null default now(),
  turn uuid not null,
  session uuid not null,
  day date not null,
  tenant int not null,
  attempt int not null,
  input_tokens int,
  output_tokens int,
  cache_read_tokens int,
  cache_write_tokens int,
  reasoning_tokens int,
  outcome text not null,
  agent text not null,
  model text not null,
  primary key (tenant, day, turn, attempt, model))
  partition by range (day);

-- The sums of whole days, written by the leader.
create table fleetline.usage_days (
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  reasoning_tokens bigint not null,
  day date not null,
  tenant int not null,
  turns int not null,
  attempts int not null,
  unreported int not null,
  agent text not null,
  model text not null,
  primary key (tenant, day, agent, model));

-- One row: the first day that is not summed for all tenants yet, and the last tenant for which it is.
create table fleetline.usage_progress (
  day date not null,
  last_tenant int not null,
  only_row boolean primary key default true check (only_row));
insert into fleetline.usage_progress (day, last_tenant) values ((now() at time zone 'UTC')::date, 0);

-- Makes a table for a span of days and attaches it. Only the owner of the schema calls it. `create table … partition of` would wait for
-- every open transaction that has read the parent; attaching takes a lock that conflicts neither with reading nor with writing. The
-- table may be there and detached: then the clock was set back.
create function fleetline.make_partition(parent text, span text, first_day date, next_day date) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare name text := parent || '_' || span;
begin
  if to_regclass('fleetline.' || name) is null then
    execute format('create table fleetline.%I (like fleetline.%I including all)', name, parent);
  end if;
  if not (select c.relispartition from pg_class c where c.oid = to_regclass('fleetline.' || name)) then
    execute format('alter table fleetline.%I attach partition fleetline.%I for values from (%L) to (%L)',
                   parent, name, first_day, next_day);
  end if;
end $$;
revoke execute on function fleetline.make_partition from public;

-- The first day and the first month are those of one hour ago: a transaction that began before midnight still writes into them.
create or replace function fleetline.make_partitions(days_ahead int) returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s' as $$
declare
  day date;
  first_day date := (now() - interval '1 hour')::date;
begin
  perform pg_advisory_xact_lock(hashtext('fleetline.partitions'));
  for day in select generate_series(first_day, current_date + days_ahead, interval '1 day') loop
    perform fleetline.make_partition('task_history', to_char(day, 'YYYYMMDD'), day, day + 1);
  end loop;
  for day in select generate_series(date_trunc('month', first_day), current_date + days_ahead, interval '1 month') loop
    perform fleetline.make_partition('usage', to_char(day, 'YYYYMM'), day, (day + interval '1 month')::date);
  end loop;
end $$;

-- As before, for the days of the history and the months of the usage. A call does one step: it drops a partition that it has detached
-- before or, if there is none, detaches the oldest one that nobody keeps. What was detached under another name is left alone. Detaching
-- locks the whole table, so it is a short transaction of its own; the caller sends COMMIT in the same message. It waits for its locks
-- five times, 20 ms each: for the partition first, which few use, then for the table. The lock lasts until COMMIT returns, so
-- `synchronous_commit` is off: COMMIT waits neither for the disk nor for a standby. If a crash loses the step, the next call repeats it.
-- The `case` keeps `to_date` away from other names of tables: the planner may evaluate conditions in any order.
create or replace function fleetline.drop_partitions() returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '20ms' as $$
declare
  kept_days date := now() - greatest(interval '1 hour', (select max(keep) from fleetline.queues));
  kept_months date := date_trunc('month', now() - interval '13 months');
  oldest record;
begin
  if not pg_try_advisory_xact_lock(hashtext('fleetline.partitions')) then return; end if;
  select c.relname::text as name, c.relispartition as is_attached,
         regexp_replace(c.relname, '_\d+(_detached)?$', '') as parent into oldest
    from pg_class c
   where c.relnamespace = 'fleetline'::regnamespace and c.relkind = 'r'
     and case when not c.relispartition then c.relname ~ '^(task_history_\d{8}|usage_\d{6})_detached$'
              when c.relname ~ '^task_history_\d{8}$' then to_date(right(c.relname, 8), 'YYYYMMDD') < kept_days
              when c.relname ~ '^usage_\d{6}$' then to_date(right(c.relname, 6), 'YYYYMM') < kept_months
              else false end
   order by c.relispartition, c.relname limit 1;
  if oldest is null then return; end if;
  perform set_config('synchronous_commit', 'off', true);
  for attempt in 1..5 loop
    begin
      execute format('lock table fleetline.%I in access exclusive mode', oldest.name);
      if oldest.is_attached then
        execute format('alter table fleetline.%I detach partition fleetline.%I', oldest.parent, oldest.name);
        execute format('alter table fleetline.%I rename to %I', oldest.name, oldest.name || '_detached');
      else
        execute format('drop table fleetline.%I', oldest.name);
      end if;
      return;
    exception when lock_not_available then
      perform pg_sleep(0.1);
    end;
  end loop;
  raise warning 'fleetline: % was not removed, because another transaction uses %; it is tried again', oldest.name, oldest.parent;
end $$;

select fleetline.make_partitions(7);
