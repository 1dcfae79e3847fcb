-- breaks: no
-- The history has a partition a day: it is attached and detached with short locks. A role enqueues for the tenants that it has.

-- A day is made as a table of its own and then attached: that lock conflicts neither with reading nor with writing.
-- `create table … partition of` would wait for every open transaction that has read the history, and everybody else behind it.
-- The first day is that of one hour ago: a transaction that began before midnight still writes into it.
create or replace function fleetline.make_partitions(days_ahead int) returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s' as $$
declare
  day date;
  name text;
begin
  perform pg_advisory_xact_lock(hashtext('fleetline.partitions'));
  for day in select generate_series((now() - interval '1 hour')::date, current_date + days_ahead, interval '1 day') loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    if to_regclass('fleetline.' || name) is null then
      execute format('create table fleetline.%I (like fleetline.task_history including all)', name);
    end if;
    -- The table may be there and detached: then the clock was set back.
    if not (select c.relispartition from pg_class c where c.oid = to_regclass('fleetline.' || name)) then
      execute format('alter table fleetline.task_history attach partition fleetline.%I for values from (%L) to (%L)',
                     name, day, day + 1);
    end if;
  end loop;
end $$;

-- A call does one step: it drops a detached day that no queue keeps any more or, if there is none, detaches the oldest such day.
-- Detaching locks the whole history, so it has a short transaction of its own. It waits for the lock five times, 20 ms each,
-- because settlements queue up behind it. A long read of the history delays this step and nothing else. The lock lasts until
-- COMMIT returns, so `synchronous_commit` is off: COMMIT waits neither for the disk nor for a standby. If a crash loses
-- the step, the next call repeats it.
-- The `case` keeps `to_date` away from other names of tables: the planner may evaluate conditions in any order.
create or replace function fleetline.drop_partitions() returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '20ms' as $$
declare
  kept_from timestamptz := now() - greatest(interval '1 hour', (select max(keep) from fleetline.queues));
  oldest record;
begin
  if not pg_try_advisory_xact_lock(hashtext('fleetline.partitions')) then return; end if;
  select c.relname::text as name, c.relispartition as is_attached into oldest
    from pg_class c
   where c.relnamespace = 'fleetline'::regnamespace and c.relkind = 'r'
     and case when c.relname ~ '^task_history_\d{8}$' then to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= kept_from end
   order by c.relispartition, c.relname limit 1;
  if oldest is null then return; end if;
  perform set_config('synchronous_commit', 'off', true);
  for attempt in 1..5 loop
    begin
      if oldest.is_attached then
        execute format('alter table fleetline.task_history detach partition fleetline.%I', oldest.name);
      else
        execute format('drop table fleetline.%I', oldest.name);
      end if;
      return;
    exception when lock_not_available then
      perform pg_sleep(0.1);
    end;
  end loop;
  raise warning 'fleetline: % was not removed, because another transaction uses task_history; it is tried again', oldest.name;
end $$;

-- Which roles may enqueue for which tenants. The right to execute fleetline.enqueue gives no tenant. Roles are stored by name,
-- because their OIDs differ in a restored database.
create table fleetline.enqueuers (
  tenant int not null,
  role name not null,
  primary key (tenant, role));

create function fleetline.grant_enqueue(role_name name, tenant_name text) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare tenant_id int := (select t.id from fleetline.tenants t where t.name = tenant_name);
begin
  if tenant_id is null then
    raise exception 'There is no tenant %', tenant_name using errcode = 'invalid_parameter_value';
  end if;
  execute format('grant usage on schema fleetline to %I', role_name);
  execute format('grant execute on function fleetline.enqueue to %I', role_name);
  insert into fleetline.enqueuers (tenant, role) values (tenant_id, role_name) on conflict do nothing;
end $$;

create function fleetline.revoke_enqueue(role_name name, tenant_name text) returns void
  language sql set search_path = pg_catalog, pg_temp as $$
  delete from fleetline.enqueuers e
   where e.role = role_name and e.tenant = (select t.id from fleetline.tenants t where t.name = tenant_name) $$;
revoke execute on function fleetline.grant_enqueue, fleetline.revoke_enqueue from public;

-- Roles that could enqueue until now get the tenant that they used without naming one.
insert into fleetline.enqueuers (tenant, role)
select t.id, r.rolname
  from fleetline.tenants t, pg_proc p, aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee
 where t.name = 'dev' and p.oid = 'fleetline.enqueue'::regproc and a.grantee <> p.proowner
on conflict do nothing;

-- The tenant that the caller names, or its only one. The owner of the function, and members of that role, may use every tenant.
-- In a function that is `security definer`, current_user is the owner; so the caller is `role` if that is set, else session_user.
-- A tenant that the caller does not have gives the same error as one that does not exist.
create function fleetline.resolve_tenant(tenant_name text) returns int
  language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
  is_owner boolean := pg_has_role(caller, current_user, 'usage');
  named int := (select t.id from fleetline.tenants t
                 where t.name = coalesce(tenant_name, case when is_owner then 'dev' end));
  granted int[];
begin
  if is_owner and named is not null then return named; end if;
  granted := array(
    select distinct e.tenant
      from fleetline.enqueuers e join pg_roles r on r.rolname = e.role
     where pg_has_role(caller, r.oid, 'usage') and (tenant_name is null or e.tenant = named)
     limit 2);
  if cardinality(granted) = 1 then return granted[1]; end if;
  if tenant_name is not null then
    raise exception 'There is no tenant %, or % may not enqueue for it', tenant_name, caller
      using errcode = 'insufficient_privilege', hint = 'The owner of the schema grants it: select fleetline.grant_enqueue(role, tenant)';
  elsif cardinality(granted) = 0 then
    raise exception '% may not enqueue for any tenant', caller
      using errcode = 'insufficient_privilege', hint = 'The owner of the schema grants one: select fleetline.grant_enqueue(role, tenant)';
  end if;
  raise exception '% may enqueue for several tenants: name one', caller
    using errcode = 'invalid_parameter_value', hint = 'As an option: {"tenant": "name"}';
end $$;
revoke execute on function fleetline.resolve_tenant from public;

-- As before, but for the tenant.
-- options: tenant (a name), priority, run_at, max_attempts.
create or replace function fleetline.enqueue(queue text, machine text, input jsonb, options jsonb default '{}') returns uuid
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- A UUIDv7: 48 bits of time in front of a random one, whose version becomes 7.
  made uuid := encode(set_bit(set_bit(overlay(
    uuid_send(gen_random_uuid())
    placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  due timestamptz := coalesce((options ->> 'run_at')::timestamptz, now());
  unknown_option text := (select min(o) from jsonb_object_keys(options) o
    where o not in ('tenant', 'priority', 'run_at', 'max_attempts'));
  wanted record;
begin
  if unknown_option is not null then
    raise exception 'fleetline.enqueue has no option %', unknown_option using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(input::text) > 262144 then
    raise exception 'The input is over 262144 bytes of JSON' using errcode = 'program_limit_exceeded';
  end if;
  select k.id, k.max_attempts into wanted
    from fleetline.tracks k where k.id = fleetline.track_of(enqueue.queue, enqueue.machine);
  if not found then
    raise exception 'No pod has run % in queue % yet: start one that knows it', machine, queue
      using errcode = 'invalid_parameter_value';
  end if;
  insert into fleetline.tasks (id, track, tenant, state, run_at, priority, max_attempts, input)
  values (made, wanted.id, fleetline.resolve_tenant(options ->> 'tenant'),
          (case when due > now() then 'waiting' else 'ready' end)::fleetline.task_state, due,
          coalesce((options ->> 'priority')::smallint, 3),
          least(1000, greatest(1, coalesce((options ->> 'max_attempts')::smallint, wanted.max_attempts))), input);
  return made;
end $$;
