-- pods from: 17
-- The audit log: one row for each change of tenants, keys, tokens, issuers and agents, in the transaction of the change, and rows
-- for requests that were refused. Rows are not found by tenant: operators read those of all tenants, and the tenant of a refused
-- request is often unknown. `tenant` is whose data the row is about.
create table fleetline.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  tenant int,
  actor text not null,
  via text,
  address text,
  action text not null,
  target text,
  outcome text not null,
  reason text,
  times int not null default 1);
-- One index for each filter of the list, newest first: minted tokens are most of the rows, and a filter must not read them all.
create index on fleetline.audit (tenant, id);
create index on fleetline.audit (actor, id);
create index on fleetline.audit (action, id);
create index on fleetline.audit (at);

-- Rows are added, read, and deleted when they are old; nothing else. The triggers stop a mistake, and an intruder with the role of a pod
-- who wants to hide what was done today. They do not stop the owner of the table or a superuser, who can drop them. A role that
-- may delete can delete rows that are more than a day old, and a role that may insert can add false ones. Against those, copy the rows
-- elsewhere.
create function fleetline.refuse_audit_change() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'rows of fleetline.audit cannot be updated or truncated, nor deleted within one day';
end $$;
create trigger keep_content before update on fleetline.audit
  for each row execute function fleetline.refuse_audit_change();
create trigger keep_young before delete on fleetline.audit
  for each row when (old.at > now() - interval '1 day') execute function fleetline.refuse_audit_change();
create trigger keep_all before truncate on fleetline.audit
  for each statement execute function fleetline.refuse_audit_change();
