//! Service registration and discovery, in the layout of Curator's `x-discovery`.
//!
//! ```text
//! /services                                          a container
//!  └─ mail                                           a container: the service
//!      ├─ 1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0       ephemeral: an instance, described in JSON
//!      └─ f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11
//! ```

use crate::cache::Cache;
use crate::error::Error;
use crate::nodes::{child, uuid};
use crate::presence::Presence;
use ox_client::Client;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// One instance of a service, with a payload of the application's own. Its JSON is Curator's.
///
/// ```
/// use ox_recipes::discovery::Instance;
/// let mut instance = Instance::<()>::new("mail", "10.0.0.1", 25);
/// instance.ssl_port = Some(465);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance<P> {
    /// The service.
    pub name: String,
    /// The instance: unique within the service.
    pub id: String,
    /// Where it is.
    #[serde(default)]
    pub address: Option<String>,
    /// Its port.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its port for TLS.
    #[serde(default)]
    pub ssl_port: Option<u16>,
    /// What else clients should know.
    #[serde(default = "Option::default")]
    pub payload: Option<P>,
    /// Milliseconds since 1970.
    #[serde(rename = "registrationTimeUTC", default)]
    pub registration_time_ms: i64,
    /// `DYNAMIC`: it goes with the session of its owner.
    #[serde(default)]
    service_type: ServiceType,
    /// Curator's pattern for addresses; kept as it is.
    #[serde(default)]
    uri_spec: Option<serde_json::Value>,
}

/// Curator's kinds of instances. Here, all that are registered are dynamic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ServiceType {
    #[default]
    Dynamic,
    DynamicSequential,
    Static,
    Permanent,
}

impl<P> Instance<P> {
    /// An instance of a service, with a new id.
    ///
    /// ```
    /// let instance = ox_recipes::discovery::Instance::<()>::new("mail", "10.0.0.1", 25);
    /// ```
    pub fn new(name: &str, address: &str, port: u16) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            name: name.to_owned(),
            id: uuid(),
            address: Some(address.to_owned()),
            port: Some(port),
            ssl_port: None,
            payload: None,
            registration_time_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
        }
    }

    /// Adds a payload.
    ///
    /// ```
    /// use ox_recipes::discovery::Instance;
    /// let instance = Instance::new("mail", "10.0.0.1", 25).with_payload("eu".to_owned());
    /// ```
    #[must_use]
    pub fn with_payload(mut self, payload: P) -> Self {
        self.payload = Some(payload);
        self
    }
}

/// Registers an instance below `base`, as long as the returned value and the session live.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::discovery::{Instance, Picker, Service, register};
/// let one = Instance::new("mail", "10.0.0.1", 25).with_payload("eu".to_owned());
/// let other = Instance::new("mail", "10.0.0.2", 25).with_payload("us".to_owned());
/// let registered = (register(&client, "/services", &one).await?, register(&client, "/services", &other).await?);
///
/// let service = Service::<String>::follow(&client, "/services", "mail", Picker::RoundRobin).await?;
/// let (first, second) = (service.pick().unwrap(), service.pick().unwrap());
/// assert_ne!(first.address, second.address);
/// assert_eq!(service.pick().unwrap(), first);
/// # Ok(())
/// # }
/// ```
pub async fn register<P: Serialize>(client: &Client, base: &str, instance: &Instance<P>) -> Result<Presence, Error> {
    let path = child(&child(base, &instance.name), &instance.id);
    let json = serde_json::to_vec(instance).map_err(|error| Error::bad_data(&path, error))?;
    Presence::start(client, &path, json).await
}

/// How a [`Service`] chooses among its instances.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::discovery::{Picker, Service};
/// let service = Service::<String>::follow(&client, "/services", "mail", Picker::Sticky).await?;
/// let first = service.pick();
/// assert_eq!(service.pick(), first); // as long as it is there
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picker {
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
    /// The same as long as it is there.
    Sticky,
}

/// A service as seen by those who use it: a list of instances that follows their coming and going, and a choice among them.
/// Nodes that cannot be read as instances are left out.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::discovery::{Picker, Service};
/// let service = Service::<String>::follow(&client, "/services", "mail", Picker::Random).await?;
/// println!("{:?}", service.pick());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Service<P> {
    instances: Cache,
    picker: Picker,
    /// How many were picked, and the last one.
    picked: Mutex<(usize, Option<String>)>,
    payload: std::marker::PhantomData<fn() -> P>,
}

impl<P: DeserializeOwned> Service<P> {
    /// Follows a service below `base`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{Picker, Service};
    /// let service = Service::<String>::follow(&client, "/services", "mail", Picker::Random).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(client: &Client, base: &str, name: &str, picker: Picker) -> Result<Self, Error> {
        let instances = Cache::children(client, &child(base, name)).await?;
        Ok(Self { instances, picker, picked: Mutex::default(), payload: std::marker::PhantomData })
    }

    /// All instances that this client knows of, by id.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{Picker, Service};
    /// let service = Service::<String>::follow(&client, "/services", "mail", Picker::Random).await?;
    /// for instance in service.instances() {
    ///     println!("{:?}", instance.address);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn instances(&self) -> Vec<Instance<P>> {
        self.instances.nodes().values().filter_map(|node| serde_json::from_slice(&node.data).ok()).collect()
    }

    /// One of them; `None` when there is none.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{Picker, Service};
    /// let service = Service::<String>::follow(&client, "/services", "mail", Picker::Random).await?;
    /// let instance = service.pick().ok_or("nobody there")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pick(&self) -> Option<Instance<P>> {
        let mut instances = self.instances();
        if instances.is_empty() {
            return None;
        }
        let mut picked = self.picked.lock();
        let at = match self.picker {
            Picker::RoundRobin => picked.0 % instances.len(),
            Picker::Random => rand::random_range(0..instances.len()),
            Picker::Sticky => instances
                .iter()
                .position(|instance| Some(&instance.id) == picked.1.as_ref())
                .unwrap_or_else(|| rand::random_range(0..instances.len())),
        };
        let instance = instances.swap_remove(at);
        *picked = (picked.0.wrapping_add(1), Some(instance.id.clone()));
        Some(instance)
    }

    /// Waits for instances that come, go or change. The error is why nothing follows, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{Picker, Service};
    /// let mut service = Service::<String>::follow(&client, "/services", "mail", Picker::Random).await?;
    /// while service.pick().is_none() {
    ///     service.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), Error> {
        self.instances.changed().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Curator 5 writes it, and with the fields that its newer clients add.
    #[test]
    fn curators_json_is_read_and_written() {
        let json = r#"{"name":"mail","id":"7","address":"10.0.0.1","port":25,"sslPort":null,"payload":"eu","registrationTimeUTC":1500,"serviceType":"DYNAMIC","uriSpec":null}"#;
        let instance: Instance<String> = serde_json::from_str(json).unwrap();
        assert_eq!(
            (instance.port, instance.payload.as_deref(), instance.registration_time_ms),
            (Some(25), Some("eu"), 1500)
        );
        assert_eq!(serde_json::to_string(&instance).unwrap(), json);
        let newer = json.replace(r#""uriSpec":null"#, r#""uriSpec":{"parts":[]},"enabled":true"#);
        assert_eq!(serde_json::from_str::<Instance<String>>(&newer).unwrap().id, "7");
    }
}
