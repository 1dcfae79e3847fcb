-- pods from: 17
-- The audit log: one row for each change of tenants, keys, tokens, issuers and agents, in the transaction of the change, and rows
-- for requests that were refused. Rows are found without a tenant: operators read those of all tenants, and of refused requests
-- often nobody knows the tenant. `tenant` is whose data the row is about.
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

-- Rows are added, read, and deleted when they are old; nothing else. This stops a mistake, and an intruder with the role of a pod
-- who wants to hide what was done today. It does not stop the owner of the table or a superuser, who can drop these triggers, nor
-- anybody who may delete from deleting rows of yesterday or from adding false ones. Against those, copy the rows elsewhere.
create function fleetline.refuse_audit_change() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'fleetline.audit keeps its rows: none is changed, and none is deleted on its first day';
end $$;
create trigger keep_content before update on fleetline.audit
  for each row execute function fleetline.refuse_audit_change();
create trigger keep_young before delete on fleetline.audit
  for each row when (old.at > now() - interval '1 day') execute function fleetline.refuse_audit_change();
create trigger keep_all before truncate on fleetline.audit
  for each statement execute function fleetline.refuse_audit_change();
